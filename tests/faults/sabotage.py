"""Statements made worse on purpose, for the controls: each is what a careless author might have written."""

#: Settles what another run has settled, and indexes its messages again without a complaint.
UNFENCED_FORMATION = {
    "inbox.settle": (
        "update messages set formed_by = %(op_id)s where agent_id = %(agent_id)s and id = any(%(ids)s) returning id"
    ),
    "inbox.index_messages": "select",
}
#: Rewrites a text that is not the version it read, and takes in what another text holds already.
UNFENCED_CONSOLIDATION = {
    "memories.rewrite_consolidation": (
        "update memories set content = %(content)s where agent_id = %(agent_id)s and id = %(id)s returning id"
    ),
    "memories.absorb": (
        "update memories set state = 'absorbed', absorbed_at = clock_timestamp(),"
        " consolidated_into = %(consolidation_id)s where agent_id = %(agent_id)s and id = any(%(ids)s) returning id"
    ),
}
#: Stores what it formed and leaves the messages as they were, as if settling them were another operation.
UNSETTLED_FORMATION = {
    "inbox.settle": "select id from messages where agent_id = %(agent_id)s and id = any(%(ids)s)",
    "inbox.index_messages": "select",
    "inbox.forget_later": "select",
}
#: Takes the reflections in and leaves the text as it was.
UNWRITTEN_CONSOLIDATION = {
    "memories.rewrite_consolidation": "select id from memories where agent_id = %(agent_id)s and id = %(id)s"
}
