"""Word lists that several offline rules share, each as data."""

STOP_WORDS = frozenset(
    """a an the this that these those and or but so because as of in on at to for from with by about into over under
    up down out off then than also too very really just quite still already always usually often ever only own same
    is are was were am be been being has have had having do does did doing will shall can cannot could would should
    may might must not no nor never it its he she him her his hers they them their i me my mine we us our you your
    who whom whose which what when where why how there here s t re ve ll d m let lets get gets got""".split()
)

#: Words whose stem the suffix rules would miss, so that a fact and its restatement meet.
STEM_EXCEPTIONS = {
    "went": "go",
    "goes": "go",
    "gone": "go",
    "ran": "run",
    "bought": "buy",
    "met": "meet",
    "left": "leav",
    "taught": "teach",
    "spoke": "speak",
    "wrote": "writ",
    "children": "child",
    "kids": "child",
    "kid": "child",
    "favourite": "favorit",
    "flat": "apartment",
    "mom": "mother",
    "mum": "mother",
    "dad": "father",
    "vegetarians": "vegetarian",
    "loves": "lik",
    "love": "lik",
    "likes": "lik",
    "like": "lik",
    "enjoys": "lik",
    "enjoy": "lik",
    "adores": "lik",
    "adore": "lik",
    "hates": "dislik",
    "hate": "dislik",
    "detests": "dislik",
    "news": "news",
    "this": "this",
    "christmas": "christmas",
}

PERSONAL = frozenset("i me my mine myself you your yours yourself we us our ours ourselves yourselves".split())
#: A reader could not tell what these point to.
DANGLING = frozenset(
    """it its it's itself he him his himself she her hers herself they them their theirs themselves this these those
    there here one ones another others such else that's it'll there's he's she's they're they've let's lets someone
    something stuff thing things everything anything nothing everyone anyone somebody anybody whatever how what why
    above below following former latter""".split()
)

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NUMBER_WORDS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
}
