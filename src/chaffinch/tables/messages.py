"""The files and streams of messages between encoding, shuffling and analysis."""

from chaffinch.tables.facts import MessageFacts
from chaffinch.tables.message_reader import MessageReader, Messages, open_messages
from chaffinch.tables.message_writer import MessageWriter

__all__ = ["MessageFacts", "MessageReader", "MessageWriter", "Messages", "open_messages"]
