"""Put paper in stock, so that the first order can be printed."""

from __future__ import annotations

from typing import Any

from django.db import migrations

SHEETS = {"10x15": 1000, "13x18": 500, "30x40": 50}


def fill(apps: Any, schema_editor: Any) -> None:
    paper = apps.get_model("shop", "Paper")
    paper.objects.using(schema_editor.connection.alias).bulk_create(
        paper(size=size, sheets=sheets) for size, sheets in SHEETS.items()
    )


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
