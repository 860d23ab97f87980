"""Streamlit: a chat with an agent that remembers. `streamlit run examples/recipes/streamlit_app.py` needs no key."""

import atexit
from contextlib import ExitStack
from uuid import uuid4

import streamlit as st
from langchain_core.messages import HumanMessage

from mnemic import Identity, Mnemic, SyncMnemic


@st.cache_resource
def open_memory() -> SyncMnemic:
    """Open one memory for all sessions and reruns of this server."""
    stack = ExitStack()
    memory = stack.enter_context(Mnemic.open_sync())
    atexit.register(stack.close)
    return memory


memory = open_memory()
user = st.sidebar.text_input("User", "ana")  # put your own authentication here
session = st.session_state.setdefault("session", uuid4().hex)
identity = Identity(agent_id="guide", user_id=user, session_id=session, role="owner")
thread = memory.threads.config(identity)
agent = memory.graphs.supervisor(memory.threads.checkpointer())

if text := st.chat_input("Message"):
    agent.invoke({"messages": [HumanMessage(text)]}, thread, context=identity)

for message in agent.get_state(thread).values.get("messages", []):
    st.chat_message("user" if message.type == "human" else "assistant").write(message.text)

st.sidebar.subheader("Memories")
if st.sidebar.button("Form memories now"):
    memory.form(identity)
for item in memory.memories(identity):
    st.sidebar.write(item.content)
