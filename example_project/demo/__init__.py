"""
The demo: customers, the world outside the shop, and the shop's own processes, told as a story.

```text
manage.py demo ─▶ scenes ─┬─▶ customer ──HTTP──▶ web server ─┐
 (this process)           ├─▶ outside  ◀──HTTP, SMTP─ workers ┴─▶ PostgreSQL
                          └─▶ processes, each behind a tether that ends it with us
```
"""

from __future__ import annotations
