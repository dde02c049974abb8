"""The files behind citations, over HTTP."""
