"""Words, sentences and quotations of a text: the ground of the other rules, each pattern linear in the text."""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


_FUNCTION_WORDS = """
a about above across after afterwards again against ago ahead all almost alone along already also although altogether
always am amid among an and another any anybody anyhow anyone anything anyway anywhere apart apparently are aren
around as aside at away back barely basically be because been before behind being below beneath beside besides between
beyond both but by can cannot could couldn currently despite did didn do does doesn doing don done down due during
each eight either eleven else elsewhere enough especially et etc even eventually ever every everybody everyone
everything everywhere except few fifty finally first firstly five following for former four from further furthermore
generally given had hadn half hardly has hasn have haven having he hence her here hers herself him himself his how
however hundred i if in indeed inside instead into is isn it its itself just last lastly later least less lest let
lets like likewise long lot lots many may maybe me meanwhile might mightn million mine more moreover most mostly much
must mustn my myself namely near nearly needn neither never nevertheless next nine no nobody none nonetheless noone
nor normally not nothing notwithstanding now nowadays nowhere of off often oh ok okay on once one only onto or other
others otherwise ought our ours ourselves out outside over overall own part per perhaps please plus possibly pretty
probably quite rather re really regarding right same second secondly seldom seven several shall shan she should
shouldn since six so some somebody somehow someone something sometimes somewhat somewhere soon still such sure ten
than that the their theirs them themselves then there thereby therefore these they third thirty this those though
thousand three through throughout thus till to today together tomorrow tonight too toward towards twelve twenty twice
two under underneath unfortunately unless unlike until up upon us usually various very via was wasn we well were weren
what whatever when whenever where whereas whereby wherever whether which whichever while who whoever whole whom whose
why will with within without won would wouldn yes yesterday yet you your yours yourself yourselves
"""
_SPOKEN_WORDS = """
aargh absolutely adorable agreed ah aha alas alright amazing amen anymore anytime apologies argh aw awesome aww bigger
bingo bravo bummer bye cheaper cheers congrats congratulations cool correct cute dang dear definitely duh earlier
easier eh exactly excellent fantastic faster fine funny gee god gonna good goodbye gosh gotta great ha hah haha harder
hello hey hi hm hmm honestly hooray hopefully huh impressive lol longer lovely ma'am meh mhm mm morning nah naturally
nice nicer nope obviously older oops ouch perfect phew respect righto rude sensible seriously shorter sir smaller
sooner sorry super thank thankfully thanks tons true ugh uh um wanna welcome whoa wonderful wow yay yeah yep yo
younger yum yup
"""
_VERBS = """
accept act add admit advise afford agree aim allow announce answer appear apply appreciate approve argue arrange
arrive ask assume attach attend avoid bake base become beg begin being believe belong bet book borrow bought bring
brought build built buy call came cancel capture care carry catch caught cause change charge chase chat check choose
chose clean clear click climb close collaborate collect come compare complain complete confirm congratulate connect
consider contact contain continue cook copy cost count cover create cross cut dance deal decide declare decline delete
deliver depend deploy describe design destroy develop die discover discuss dream drink drive drop earn eat email
employ end enjoy enter establish estimate execute expect experiment explain explore face fail fall fascinate feed feel
felt fetch fight figure fill find finish fit fix fly focus follow forget forgot form found frustrate gather gave get
give glad go going gone got grab grew grow guess handle hang happen hate having hear heard help hide hike hire hit
hold hurry ignore imagine improve include increase inform insist install intend introduce invest invite involve join
jump keep kept kick kill knew know known lack launch lay lead learn leave left lend lie lift listen live load look
lose lost love made maintain make manage mean meant measure meet mention met mind miss move name need note notice
obtain offer open operate order organise organize paid paint park pass paste pay perform pick place plan play point
postpone prefer prepare present press print produce promise propose protect prove provide pull push put raise ran
reach read realise realize receive recognise recognize recommend reduce refer refuse regret reject relax rely remain
remember remind remove rent repair repeat replace reply report request require rest restore return review ride ring
run said sat save saw say schedule search see seem seen select sell send sent separate serve set settle share show
shut sign sing sit sleep smile solve sort sound speak spend spent spoke stand start state stay step stick stood stop
study submit suggest suit summarise summarize supply support suppose surround swap swim switch take talk taught teach
tell tend test think thought threw throw told took touch train transition translate travel treat tried try turn
understand understood update upgrade use using visit wait wake walk want warn warrant wash watch wear went win wish
wonder word work worry write wrote
"""
_NOUNS_AND_ADJECTIVES = """
able access account action activity actual address adult advice afternoon age agenda agent air airport allergy
alternative amount animal apartment app apple application appointment area arm arrangement article artist assistant
attempt attention aunt author autumn available average baby backend bad bag balcony band bank bath beach bean beans
bear beautiful bed bee beer benefit berth best better bicycle big bike bird birthday bit black blood blue board boat
body book boss bottle bottom box boy brain brave bread breakfast brief bright brilliant brother brown budget bug
building bus business busy cake calendar camera camping cancer car card career case cat category cello central century
certain chair challenge chance chapter cheap cheese chicken chief child children chocolate choice church cinema city
class classic clause client clock cloth cloud club coach coat code coffee cold colleague college color colour comment
common company competition computer concert conclusion condition conference constraint content contract conversation
corner country couple course cousin crazy cream crew culture cup current customer cycle dad daily dairy damn dark data
database date daughter day deadline death decent decision dedication deep degree delay delivery demand dentist
department deployment deputy desk detail diet different difficult dinner direct director discount dish distance doctor
document dog dollar door double doubt draft drawing dress driver dry early earth easy economy edge editor education
effect effort egg emergency emotional empty energy engine engineer english entire entry environment equal error escape
euro evening event evidence exam example excited exciting execution exercise expensive experience expert extra eye
fact factory fair fake fall false familiar family famous far farm fast fat father favorite favourite fear feature
feedback female festival field file film filter final finance finger fire fish flat flight floor flower food foot
football force foreign forest fork forward free french fresh fridge friend front fruit full fun function fund funding
future gallery game garage garden gas general german gift girl girlfriend glass global gluten goal gold government
grand grandfather grandma grandmother grandpa grass gray green grey ground group guest guide guitar guy gym hair hand
happy harbor harbour hard hat head headache health healthy heart heat heavy height hello high hill history hobby
holiday home honest honey hope horse hospital host hosting hot hotel hotfix hour house household huge human hungry
husband ice idea ideal illness image immediate impact important impossible improvement individual industry information
inner insurance interest internal international internet interview inventory invoice island issue item jacket job joke
journey juice key kid kind king kitchen knee knife knowledge lady lake lamp land language laptop large late law lawyer
leader leather leg legal lesson letter level library life light limit line link list literally little local location
lock lonely loose loss loud low luck lucky lunch luxury machine mail main major male man management manager manual map
marathon march marina market marriage mass master match material matter meal meat medicine medium meeting member
memory men mental mentor menu mess message method middle milk minor minute mistake model modern mom moment money month
monthly mood moon mother motor mountain mouse mouth movie mum museum music nature nearest neat necessary neck negative
neighbor neighbour nephew nervous network new news niece night noise noon normal north nose number nurse nursery
obvious odd office official oil old online operation operational opinion opportunity option orange ordinary original
outcome oven owner page pain pair pan paper parent parking partner party passport password past patient pattern
payment peace pension people percent period permission person personal pet phone photo photography physical physio
piano picture piece pilot pizza plane plant plastic plate platform player pleasant plenty pocket poem poet policy
polite pool poor popular position positive possible post pottery power practice preference pregnant presentation
president price private problem procedure process product professional profile programming progress project proof
proper property proposal proud public purpose quality quarter question quick quiet race rain random rare rate raw
ready real reason recent recipe record red registration regular related relationship relevant rental research
reservation resource response responsible restaurant result rice rich ring risk river road rock role roof room route
routine rule sad safe salad salary sale salt sand school science scope score screen sea season seat secret security
self serious server service session shape sharp sheet ship shirt shoe shop short shot shoulder shower sick side signal
silent silly similar simple single sister site situation size skill skin sky slight slow small smart smooth snow
social soft software solution someday son song soup source south space special specific speed spirit sport spot spring
staff stage staging standard standup station status steady steak step stomach stone storage store storm story straight
strange strategy street stress strict strong structure student studio stuff stupid style subject subscription success
sudden sugar summary summer sun surprise suspicious sweet system table tall task taste tax taxi tea teacher team
technical technology temperature term terrible text theatre theory thick thin thing ticket tidy tight time tiny tip
tired title toast toddler tool tooth top topic total tough tour tourist town toy trade traffic trailer training tram
transport trip trouble truck trust truth tutorial type typical ugly uncle unit university update urgent useful user
usual vacation valuable value variety vegan vegetable vegetarian venue version video view village violin voice
volunteer vote wall war warm warranty waste water way weak weather web website wedding week weekday weekend weekly
weight weird west wet whatever wheel white wide wife wild wind window wine winter wise woman women wood workshop world
worse worst worth wrong yard year yellow yesterday yoga young zero zone
"""
FUNCTION_WORDS = word_set(_FUNCTION_WORDS)
COMMON_WORDS = word_set(f"{_FUNCTION_WORDS} {_SPOKEN_WORDS} {_VERBS} {_NOUNS_AND_ADJECTIVES}")

#: Endings that are undone, each with what may stand in its place. `-er` is not: Parker and Baker are people.
_ENDINGS = tuple(pair.split("=") for pair in word_set("ies=y ied=y ily=y es= s= ly= ing=e ing= ed=e ed= est= ness="))


def is_common_word(word: str) -> bool:
    """Whether an English word, in any case and inflection, is one of the common ones."""
    folded = word.casefold().replace("’", "'").partition("'")[0]
    if folded in COMMON_WORDS:
        return True
    for ending, instead in _ENDINGS:
        stem = folded.removesuffix(ending)
        if stem == folded or len(stem) < 3:
            continue
        doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[:-1] in COMMON_WORDS
        if stem + instead in COMMON_WORDS or doubled:
            return True
    return False


#: A word begins with a letter and may hold apostrophes; hyphens part words, so that `Berlin-based` shows `Berlin`.
WORD = re.compile(r"(?<!\w)[^\W\d_]\w*(?:['’]\w+)*")
#: Between two words: the end of a sentence, a line end, or an opening quotation mark.
_NEW_SENTENCE = re.compile(r"""[.!?…:]["'”’»)\]]*+\s|[。！？\n]|(?:^|\s)["“«]$""")
_SENTENCE_END = re.compile(r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=\s|$)|[。！？]++""")
#: Quotations. No pattern may cross its own opening mark, which keeps unclosed ones linear.
QUOTED = re.compile(r"\"([^\"]*)\"|“([^“”]*)”|«([^«»]*)»|`([^`\n]*)`|(?<!\w)'([^'\n]*)'(?!\w)|‘([^‘\n]*?)’(?!\w)")
#: A full stop after these ends no sentence; neither does one after a single letter or after `no` before a number.
_ABBREVIATIONS = word_set(
    "dr mr mrs ms prof st vs approx inc ltd co corp jr sr fig dept est ca cf e.g i.e a.m p.m u.s u.k"
)


def pattern(expression: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """Gives the pattern when called: for large ones, 20 ms together, which importing the graphs need not take."""
    return cache(partial(re.compile, expression, flags))


class Word(NamedTuple):
    """One word, where it stands, and whether a sentence, line or quotation begins with it."""

    text: str
    start: int
    initial: bool


def words(text: str) -> list[Word]:
    """The words of a text in order."""
    found: list[Word] = []
    end = 0
    for match in WORD.finditer(text):
        initial = not found or _NEW_SENTENCE.search(text[end : match.start()]) is not None
        found.append(Word(match.group(), match.start(), initial))
        end = match.end()
    return found


def bare(word: str) -> str:
    """The word without its possessive ending."""
    return word.removesuffix("'s").removesuffix("’s")


def folded_words(text: str) -> list[str]:
    """Every word without case and possessive ending, in order."""
    return [bare(word).casefold() for word in WORD.findall(text)]


def _ends_sentence(text: str, end: re.Match[str]) -> bool:
    if not end.group().startswith("."):
        return True
    before = text[max(0, end.start() - 12) : end.start()].split()
    last = before[-1].lstrip("(\"'“‘").casefold() if before else ""
    following = text[end.end() : end.end() + 2].strip()
    if last in ("no", "nr"):
        return not following.isdigit()
    return not (last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()) or following.islower())


def sentence_ends(text: str) -> list[int]:
    """Where each sentence ends, the last at the end of the text; in doubt, as after `Dr.`, none ends."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text) if _ends_sentence(text, match)]
    if not ends or text[ends[-1] :].strip():
        ends.append(len(text))
    return ends


def sentences(text: str) -> list[str]:
    """The sentences of a text without white space around them."""
    ends = sentence_ends(text)
    found = [text[start:end].strip() for start, end in zip([0, *ends], ends, strict=False)]
    return [sentence for sentence in found if sentence]


def without_quotes(text: str) -> str:
    """The text with every quotation blanked, so that positions stay the same."""
    return QUOTED.sub(lambda match: " " * len(match.group()), text)
