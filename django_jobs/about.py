"""
What a job is about: one object of the project's, named by a text such as "shop.order/17".

The text stands in the job's meta under `about`, so that a job without one costs nothing more; a partial index
finds the jobs of an object. Written by `JobTask.using`, read by the context, the admin and `JobQuerySet`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import router, transaction
from django.db.models import Model
from django.db.models.signals import class_prepared, post_delete

from django_jobs.framework import InvalidTask

ABOUT = "about"
"""The key in a job's meta."""

LONGEST = 300
"""Characters of the text that names an object, which an index has to hold."""

DELETED = "the object that it was about was deleted"
"""The reason of a job that was cancelled for that."""

AnyModel = TypeVar("AnyModel", bound=type[Model])


def key_of(instance: Model) -> str:
    """
    Return the text that names a saved object: label of its model and primary key.

    Proxies have the label of the model whose table they share. Raises InvalidTask for anything else than a
    saved object.
    """
    if not isinstance(instance, Model):
        raise InvalidTask(f"about must be a saved object of a model, not {instance!r}.")
    meta = instance._meta
    if instance._state.adding or instance.pk is None:
        raise InvalidTask(f"about must be saved first, but this {meta.label} isn't.")
    return name_of(instance)


def name_of(instance: Model) -> str:
    """Return the text that names an object, also of one that was never read."""
    meta = instance._meta
    assert meta.concrete_model is not None
    return f"{meta.concrete_model._meta.label_lower}/{meta.pk.value_to_string(instance)}"


def key_for(instance: Model, database: str | None) -> str:
    """
    Return the text that names an object that a new job in `database` is to be about; `None` for any.

    Raises InvalidTask for what is no saved object, can't be named in `LONGEST` characters, or may have no
    relation to the job by the routers: without one, if it is from another database, as with a foreign key.
    """
    key = key_of(instance)
    if len(key) > LONGEST:
        raise InvalidTask(f"about names an object in {LONGEST} characters, but {key[:80]}… has {len(key)}.")
    if database is None:
        return key
    from django_jobs.models import Job  # not at import: tasks are defined before the models are loaded

    job = Job()
    job._state.db = database
    if not router.allow_relation(instance, job):
        raise InvalidTask(
            f"about is from the database {instance._state.db!r}, but the job would be in {database!r}. "
            "Where the two belong together, say so in the allow_relation of a database router."
        )
    return key


def check_about(meta: Mapping[str, Any]) -> None:
    """Raise InvalidTask where meta has something else for `about`, which the index couldn't hold."""
    about = meta.get(ABOUT)
    if about is not None and not (isinstance(about, str) and len(about) <= LONGEST):
        raise InvalidTask(
            f"about in meta names an object, such as shop.order/17, in {LONGEST} characters at the most, so "
            f"it can't be {repr(about)[:80]}."
        )


def about_in(meta: object) -> str | None:
    """Return the text in a job's meta that names its object; strangers' rows may hold anything there."""
    found = meta.get(ABOUT) if isinstance(meta, Mapping) else None
    return found if isinstance(found, str) else None


def model_of(key: str | None) -> type[Model] | None:
    """Return the model of the object that `key` names; `None` when there is none of that label."""
    label, slash, _ = (key or "").partition("/")
    try:
        return apps.get_model(label) if slash else None
    except (LookupError, ValueError):
        return None


def object_of(key: str | None) -> Model | None:
    """Return the object that `key` names, read now; `None` when it or its model isn't there any more."""
    model = model_of(key)
    if key is None or model is None:
        return None
    try:
        pk = model._meta.pk.to_python(key.partition("/")[2])
    except (ValidationError, ValueError):
        return None
    return model._base_manager.filter(pk=pk).first()


# Cancelling the waiting jobs of what is deleted.

watched: set[type[Model]] = set()
"""Models whose objects take their waiting jobs with them."""


def cancel_jobs_on_delete(model: AnyModel) -> AnyModel:
    """
    Have the waiting jobs about an object of `model` cancelled when it is deleted; as a decorator, or a call.

    By `delete()`, also of a queryset, or a cascade, and in the same transaction. Jobs that run go on.
    Returns `model`.
    """
    assert model._meta.concrete_model is not None
    watched.add(model._meta.concrete_model)
    watch(model)
    for known in models_loaded():
        watch(known)
    return model


def models_loaded() -> list[type[Model]]:
    """Return every model so far, also while the apps are still loading."""
    return [model for models in apps.all_models.values() for model in models.values()]


def watch(sender: type[Model], **kwargs: Any) -> None:
    """Connect `sender` if it is a watched model or a proxy of one: Django sends a proxy's deletion as its."""
    if sender._meta.concrete_model in watched:
        post_delete.connect(cancel_jobs_about, sender=sender, dispatch_uid="django_jobs.about")


class_prepared.connect(watch, dispatch_uid="django_jobs.about.watch")


def cancel_jobs_about(sender: type[Model], instance: Model, using: str, **kwargs: Any) -> None:
    """Cancel the waiting jobs about an object that was just deleted."""
    from django_jobs.operations import Operations  # not at import: it needs the models

    operations, key = Operations(), name_of(instance)
    if using == operations.alias:
        operations.cancel_about(key, reason=DELETED)
    else:
        transaction.on_commit(lambda: operations.cancel_about(key, reason=DELETED), using=using)
