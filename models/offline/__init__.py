"""The offline model: rules that do the work of each formation step on English text, without a language model.

They keep what people plainly say and rewrite it faithfully; what they are not sure of, they leave out.
"""

from mnemic.models.offline.consolidation import write_consolidation
from mnemic.models.offline.decisions import decide
from mnemic.models.offline.facts import extract_facts
from mnemic.models.offline.observations import extract_observations
from mnemic.models.offline.refine import refine
from mnemic.models.offline.reflections import extract_reflections

__all__ = ["decide", "extract_facts", "extract_observations", "extract_reflections", "refine", "write_consolidation"]
