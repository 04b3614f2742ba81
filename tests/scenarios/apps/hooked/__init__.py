"""An app with a hook at the end of each process, and a log handler that holds its lines back."""
