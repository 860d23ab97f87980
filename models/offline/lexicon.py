"""Word lists that several offline rules share, each as data."""

from mnemic.models.offline.pieces import words

STOP_WORDS = words("STOP_WORD")

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

PERSONAL = words("PERSONAL")
#: A reader could not tell what these point to.
DANGLING = words("DANGLING")

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
