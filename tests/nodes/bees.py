"""What Ana said in an earlier session, and the turns that are recalled for afterwards."""

from mnemic.service.memory import Mnemic
from tests.support.loopback import LoopbackModel
from tests.support.scripted import FACTS, REFLECTIONS, fact, facts, reflection, reflections, say
from tests.support.worlds import identity

SESSION = identity("ana", session="s1")
ANA = identity("ana")
WISH = "Ana wants short answers, and Marit hears of it."
BEES = "Ana keeps bees on the north quay."
#: It calls for a search, and the other one does not.
PAST = "Where on the quay were the bees?"
GREETING = "Good morning, dear assistant."


async def fill(memory: Mnemic, model: LoopbackModel) -> None:
    """Forms the wish, which is always in context, and the fact, which is found; then forgets what was requested."""
    model.answer(FACTS, facts(fact(BEES)))
    model.answer(REFLECTIONS, reflections(user=[reflection(WISH)]))
    await say(memory, SESSION, "I keep bees on the north quay. Be short, tell Marit.")
    model.embedding_requests.clear()
    model.chat_requests.clear()
