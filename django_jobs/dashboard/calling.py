"""
A form for the call of a task, made from its signature: one field for each parameter, by its annotation.

What has an annotation that a field is known for is asked for as such; everything else as JSON.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from inspect import Parameter, Signature
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from django import forms
from django.utils.translation import gettext_lazy as _

from django_jobs import conf
from django_jobs.core.masking import MASK, is_sensitive
from django_jobs.signatures import call_signature
from django_jobs.tasks import JobTask

PLAIN: dict[Any, type[forms.Field]] = {int: forms.IntegerField, float: forms.FloatField, str: forms.CharField}
RICH: dict[Any, type[forms.Field]] = {
    date: forms.DateField,
    datetime: forms.DateTimeField,
    Decimal: forms.DecimalField,
    UUID: forms.UUIDField,
}
"""What tasks with encoding="rich" may be given besides."""

PREFIX = "argument"
"""Before the names of the fields, so that a parameter may be called anything."""


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments for one call of a task."""

    args: list[Any]
    kwargs: dict[str, Any]


class CallForm(forms.Form):
    """The arguments of one call."""

    def __init__(self, task: JobTask, data: Any = None) -> None:
        super().__init__(data, prefix=PREFIX)
        self.parameters = call_signature(task.func, task.takes_context).parameters
        hints = hints_of(task)
        for name, parameter in self.parameters.items():
            self.fields[name] = field_for(parameter, hints.get(name, parameter.annotation), task.encoding)

    def call(self) -> Call:
        """Return the call that the form, which is valid, asks for; defaults are left to the task."""
        found = Call([], {})
        by_place = [Parameter.POSITIONAL_ONLY, *([Parameter.POSITIONAL_OR_KEYWORD] * self.more_follow())]
        for name, parameter in self.parameters.items():
            value = self.cleaned_data[name]
            is_left_out = self.is_left_out(name, parameter)
            if parameter.kind is Parameter.VAR_POSITIONAL:
                found.args.extend(value or [])
            elif parameter.kind is Parameter.VAR_KEYWORD:
                found.kwargs.update(value or {})
            elif parameter.kind in by_place:  # what comes after it must keep its place
                found.args.append(parameter.default if is_left_out else value)
            elif not is_left_out:
                found.kwargs[name] = value
        return found

    def is_left_out(self, name: str, parameter: Parameter) -> bool:
        """Whether nothing was written where the task has a default; a box that isn't ticked says no."""
        if parameter.default is Parameter.empty or isinstance(self.fields[name], forms.BooleanField):
            return False
        given: Any = self.data.get(self.add_prefix(name), "")
        return not str(given).strip()

    def more_follow(self) -> bool:
        """Whether `*args` is given anything."""
        return any(
            parameter.kind is Parameter.VAR_POSITIONAL and self.cleaned_data[name]
            for name, parameter in self.parameters.items()
        )


class ValueField(forms.JSONField):
    """Any value. Unlike with Django, an empty list or a null is one where it was written."""

    widget = forms.Textarea(attrs={"rows": 3, "cols": 60})

    def prepare_value(self, value: Any) -> Any:
        return "" if value is None else super().prepare_value(value)

    def clean(self, value: Any) -> Any:
        return self.to_python(value) if str(value or "").strip() else super().clean(None)


class ListField(ValueField):
    """What `*args` takes."""

    def clean(self, value: Any) -> Any:
        found = super().clean(value)
        if found is not None and not isinstance(found, list):
            raise forms.ValidationError(_("Write a list, such as [1, 2]."))
        return found


class DictField(ValueField):
    """What `**kwargs` takes."""

    def clean(self, value: Any) -> Any:
        found = super().clean(value)
        if found is not None and not isinstance(found, dict):
            raise forms.ValidationError(_("Write an object, such as {“name”: 1}, with straight quotes."))
        return found


def hints_of(task: JobTask) -> Mapping[str, Any]:
    """Return the annotations of a task's parameters; none where they name what can't be found."""
    try:
        return get_type_hints(task.func)
    except Exception:  # noqa: BLE001  (the project's annotations may hold anything; then it is JSON)
        return {}


def field_for(parameter: Parameter, hint: Any, encoding: str) -> forms.Field:
    """Return the field that asks for one argument."""
    has_default = parameter.default is not Parameter.empty
    given: dict[str, Any] = {"label": parameter.name, "required": not has_default}
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return ListField(label=f"*{parameter.name}", required=False, help_text=_("A list in JSON."))
    if parameter.kind is Parameter.VAR_KEYWORD:
        return DictField(label=f"**{parameter.name}", required=False, help_text=_("An object in JSON."))
    if has_default:
        given["help_text"] = _("Left empty: %(default)s") % {"default": shown_default(parameter)}
    plain, is_optional = without_none(hint)
    if plain is bool:
        return forms.BooleanField(
            label=parameter.name, required=False, initial=has_default and parameter.default is True
        )
    if get_origin(plain) is Literal:
        choices = {str(value): value for value in get_args(plain)}
        empty = [("", "–")] if has_default or is_optional else []
        given["required"] = given["required"] and not is_optional
        return forms.TypedChoiceField(
            choices=[*empty, *((text, text) for text in choices)],
            coerce=choices.__getitem__, empty_value=None, **given,
        )  # fmt: skip
    kinds = {**PLAIN, **(RICH if encoding == "rich" else {})}
    if plain in kinds:
        given["required"] = given["required"] and not is_optional
        if plain is str:
            secret = is_sensitive(parameter.name, conf.current().sensitive_names)
            given["widget"] = (
                forms.PasswordInput() if secret else forms.TextInput(attrs={"class": "vTextField"})
            )
            given["strip"] = False
            given["required"] = False  # an empty text is one
            given["empty_value"] = None if is_optional else ""
        return kinds[plain](**given)
    given["help_text"] = given.get("help_text") or _("In JSON.")
    return ValueField(**given)


def without_none(hint: Any) -> tuple[Any, bool]:
    """Return an annotation without its None, and whether it had one."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [part for part in get_args(hint) if part is not types.NoneType]
        if len(rest) == 1:
            return rest[0], True
    return hint, False


def shown_default(parameter: Parameter) -> str:
    """Return a default as it stands in code; what has a sensitive name isn't shown."""
    is_secret = is_sensitive(parameter.name, conf.current().sensitive_names)
    return MASK if is_secret else repr(parameter.default)[:200]


class Bare:
    """Stands in a signature for what is shown as it is, without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def shown_signature(task: JobTask) -> str:
    """Return how a task is called, as its code has it; a default with a sensitive name isn't shown."""
    found = call_signature(task.func, task.takes_context)
    parameters = []
    for parameter in found.parameters.values():
        if isinstance(parameter.annotation, str):  # as all are after `from __future__ import annotations`
            parameter = parameter.replace(annotation=Bare(parameter.annotation))
        if parameter.default is not Parameter.empty:
            parameter = parameter.replace(default=Bare(shown_default(parameter)))
        parameters.append(parameter)
    return str(found.replace(parameters=parameters, return_annotation=Signature.empty))
