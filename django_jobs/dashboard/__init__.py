"""
The pages of the queue in Django's admin.

`site.register` puts them on an admin site. `jobs`, `workers` and `queues` hold one page each, on `base`
(buttons, addresses, permissions); `actions` is what may be done to jobs, `confirming` the page that asks
before; `lists` and `filters` keep the list of jobs fast, `shown` turns values into what is read.
"""
