"""Runnable applications: compositions of the package's parts, for `langgraph dev` and for reading."""
