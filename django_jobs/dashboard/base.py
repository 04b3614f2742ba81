"""
What the pages have in common: read-only, buttons with addresses and permissions of their own.

On `ActionsModelAdmin` of django-admin-actions, whose manner of declaring buttons is kept: `actions_list`,
`actions_row` and `actions_detail` name methods, with `short_description` and `url_path`. What it leaves to
its templates and to luck is ours: each button says when it is shown, addresses are looked up on the site
that is being used, and templates and style come from this app, so that `admin_actions` needn't be (and, when
a project has it for its own pages, may be) in INSTALLED_APPS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from admin_actions.admin import ActionsModelAdmin  # type: ignore[import-untyped]  # it has no types
from django import forms
from django.contrib import messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ALL_VAR, ERROR_FLAG, ORDER_VAR, PAGE_VAR
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from django_jobs import conf
from django_jobs.dashboard.confirming import Crumb, shown_trail
from django_jobs.dashboard.in_time import PAGE_SECONDS, in_time


def button(
    *, title: Any, url_path: str, shown: Callable[[Any, HttpRequest, Any], bool], dangerous: bool = False
) -> Callable[[Callable[..., HttpResponse]], Callable[..., HttpResponse]]:
    """
    Declare a method to be a button's page, as django-admin-actions wants it.

    `shown(page, request, instance)` says whether the user is offered the button there; the page itself must
    check again.
    """

    def declare(method: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        declared: Any = method
        declared.short_description = title
        declared.url_path = url_path
        declared.shown = shown
        declared.dangerous = dangerous
        return method

    return declare


class ReadOnlyPages(ActionsModelAdmin):  # type: ignore[misc]  # the library has no types
    """Pages that show a model and change it through buttons only."""

    show_full_result_count = False
    sortable_by = ()
    view_on_site = False

    class Media:
        """Instead of the library's, whose file is there only when its app is installed."""

        css = {"all": ["django_jobs/admin.css", "django_jobs/charts.css"]}
        js = ("django_jobs/live.js",)

    @property
    def media(self) -> forms.Media:
        """Django's own files; the pages, which are subclasses, add `Media`."""
        plain: forms.Media = super(ActionsModelAdmin, self).media
        return plain

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def may(self, request: HttpRequest, codename: str) -> bool:
        """Whether the user has a permission of this app and may see this page."""
        return self.has_view_permission(request) and request.user.has_perm(f"django_jobs.{codename}")

    def require(self, request: HttpRequest, codename: str) -> None:
        """Raise PermissionDenied unless `may`."""
        if not self.may(request, codename):
            raise PermissionDenied

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request)
        return found.using(conf.database())

    @property
    def urls(self) -> list[Any]:
        """The addresses of all pages, each with a limit to the time of its statements."""
        found: list[Any] = self.get_urls()
        for pattern in found:
            pattern.callback = in_time(pattern.callback, self.given_up)
        return found

    def given_up(self, request: HttpRequest) -> TemplateResponse:
        """Return what stands for a page that the database took too long to read."""
        title = capfirst(self.opts.verbose_name_plural)
        context = {
            **self.admin_site.each_context(request),
            **shown_trail([*self.trail(request)[:-1], Crumb(title)]),
            "title": title,
            "opts": self.opts,
            "seconds": round(PAGE_SECONDS),
            "plain_list": request.path if request.GET else "",
        }
        return TemplateResponse(request, "admin/django_jobs/given_up.html", context, status=503)

    def plain_urls(self) -> list[Any]:
        """Return the addresses of Django's own pages."""
        found: list[Any] = super(ActionsModelAdmin, self).get_urls()
        return found

    def address(self, name: str, *args: Any) -> str:
        """Return the address of a page of the site that this is registered on."""
        return reverse(f"admin:{name}", args=args, current_app=self.admin_site.name)

    def address_of(self, obj: Model) -> str:
        """Return the address of the page about `obj`."""
        name = f"{obj._meta.app_label}_{obj._meta.model_name}_change"
        return self.address(name, quote(obj.pk))

    def list_address(self, request: HttpRequest) -> str:
        """Return the address of this list, with the filters that the user came with."""
        address = self.address(f"{self.opts.app_label}_{self.opts.model_name}_changelist")
        filters = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
        return str(add_preserved_filters(filters, address))

    def trail(self, request: HttpRequest, *further: Crumb) -> list[Crumb]:
        """Return the way from the start page to a page of this model."""
        return [
            Crumb(str(self.opts.app_config.verbose_name), self.address("app_list", self.opts.app_label)),
            Crumb(capfirst(self.opts.verbose_name_plural), self.list_address(request)),
            *further,
        ]

    def buttons(
        self, request: HttpRequest, names: Sequence[str], instance: Any = None
    ) -> list[dict[str, Any]]:
        """Return what the templates need of those buttons that are shown to this user here."""
        offered = []
        filters = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
        listed = request.GET.copy()
        for paging in (PAGE_VAR, ALL_VAR, ERROR_FLAG, ORDER_VAR):
            listed.pop(paging, None)
        for name in names:
            method = getattr(self, name)
            if method.shown(self, request, instance):
                if instance is None:  # for the whole list, as it is filtered
                    path = f"{self.address(name)}?{listed.urlencode()}"
                else:
                    path = add_preserved_filters(filters, self.address(name, self.button_argument(instance)))
                offered.append(
                    {"title": method.short_description, "path": path, "dangerous": method.dangerous}
                )
        return offered

    def button_argument(self, instance: Any) -> Any:
        """Return how an instance is named in a button's address."""
        return instance.pk

    def row_buttons(self, request: HttpRequest, instance: Any) -> SafeString:
        """Return the buttons of one row."""
        return render_to_string(
            "admin/django_jobs/change_list_item_object_tools.html",
            {"instance": instance, "buttons": self.buttons(request, self.actions_row, instance)},
        )

    def get_list_display(self, request: HttpRequest) -> tuple[Any, ...]:
        """Add the row's buttons; the library's own column doesn't know who asks."""

        def actions_holder(instance: Any) -> SafeString:
            return self.row_buttons(request, instance)

        actions_holder.short_description = ""  # type: ignore[attr-defined]  # the admin reads it
        columns = tuple(super(ActionsModelAdmin, self).get_list_display(request))
        return (*columns, actions_holder) if self.actions_row else columns

    # The library's two views look up addresses on the default site, so they are passed over.
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        response: HttpResponse = super(ActionsModelAdmin, self).change_view(
            request, object_id, form_url, {**(extra_context or {}), "show_close": True}
        )
        if isinstance(response, TemplateResponse) and response.context_data is not None:
            instance = response.context_data.get("original")
            response.context_data["buttons"] = self.buttons(request, self.actions_detail, instance)
            response.context_data |= self.detail_context(request, instance)
        return response

    def detail_context(self, request: HttpRequest, instance: Any) -> dict[str, Any]:
        """Return what the page about `instance` shows beside its fields."""
        return {}

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        response: HttpResponse = super(ActionsModelAdmin, self).changelist_view(
            request, {**(extra_context or {}), "buttons": self.buttons(request, self.actions_list)}
        )
        return response

    def in_place_of_the_list(
        self, request: HttpRequest, template: str, title: str, context: Mapping[str, Any]
    ) -> HttpResponse:
        """Return a page of ours that stands where Django's list would."""
        request.current_app = self.admin_site.name
        common = {
            **self.admin_site.each_context(request),
            "title": title,
            "subtitle": None,
            "opts": self.opts,
            "cl": {"opts": self.opts},  # what Django's template for lists asks for
            "actions_on_top": True,  # without, it has an inline style
            "media": self.media,
        }
        return TemplateResponse(request, template, {**common, **context})

    def missing(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return to the start page with a message that there is no such object, as Django's pages do."""
        response: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        return response

    def record(self, request: HttpRequest, changed: Sequence[Model], flag: int, words: str) -> None:
        """Write down in the admin's log who did what to these objects."""
        LogEntry.objects.log_actions(request.user.pk, changed, flag, words)  # type: ignore[arg-type]  # the stubs want a queryset

    def tell(self, request: HttpRequest, text: str, level: int = messages.SUCCESS) -> None:
        """Leave a message for the user's next page."""
        self.message_user(request, text, level)
