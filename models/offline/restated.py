"""Different ways of saying one thing, put into one, so that sentences can be compared."""

from mnemic.models.offline.pieces import pattern

_WHEN = r"(?:on |at |every )?(?P<when>(?:<DAY>|\d).*)"
#: A sentence on an event of somebody's, however it is put, names the event and then its time.
_EVENTS = tuple(
    (pattern(shape + "$"), wording)
    for shape, wording in (
        (
            rf"(?P<who>.+?) (?:marries|is getting married|gets married|is marrying)(?: [^\d]*?)? {_WHEN}",
            "{who}'s wedding is on {when}",
        ),
        (
            rf"(?P<who>.+?) is (?:being |going to be )?operated(?: on)?(?: [^\d]*?)? {_WHEN}",
            "{who}'s operation is on {when}",
        ),
        (
            r"(?P<who>.+?) has (?:an? |the )?(?P<what>(?:[\w-]+ ){0,2}?(?:<EVENT>))(?:s|es)? (?:on |every )"
            r"(?P<when><DAY>s\b.*)",
            "{who}'s {what} is on {when}",
        ),
    )
)
#: `Mara's sister Ana` is Ana.
_KIN_NAME = pattern(r"^<PROPER>'s (?:[\w-]+ )?<PERSON> (?=[A-Z])")


def restated(text: str) -> str:
    """The text in the common wording; texts that are put otherwise come back as they are."""
    text = _KIN_NAME.sub("", text)
    for shape, wording in _EVENTS:
        match = shape.match(text)
        if match is not None:
            return wording.format(**match.groupdict())
    return text
