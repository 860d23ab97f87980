"""The steps without a model: what people plainly say of themselves, by one table, and in doubt nothing."""

from mnemic.models.offline.formation import (
    decide,
    extract_facts,
    extract_observations,
    extract_reflections,
    write_consolidation,
)
from mnemic.models.offline.refinement import refine

__all__ = ["decide", "extract_facts", "extract_observations", "extract_reflections", "refine", "write_consolidation"]
