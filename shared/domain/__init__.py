"""The types of a chat: messages, requests, events, overrides, errors. Imports no other folder."""
