"""
A photo print shop: people upload photos and order prints; all slow work is done by jobs.

```text
upload ─▶ Photo ─ post_save ─▶ make_thumbnail
order  ─▶ Order + settle_order ─▶ Payment, paper taken, and then: send_receipt, print_order, tell_partner × n
```

Each arrow is a transaction: what is written and the jobs that follow are there together or not at all.
"""

from __future__ import annotations
