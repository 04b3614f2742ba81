"""An app with a task that only the newer version of the code has."""
