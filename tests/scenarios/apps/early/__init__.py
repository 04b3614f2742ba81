"""An app that queries while Django starts, as many projects do, and leaves its connection open."""
