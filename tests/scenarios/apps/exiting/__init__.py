"""An app whose tasks end the process that imports them, as a stray command-line script would."""
