"""The shop's tables in the admin. Its jobs are under *Jobs*; pages of orders and photos show their own."""

from __future__ import annotations

from django.contrib import admin

from django_jobs.admin import JobsAboutMixin
from example_project.shop.models import Line, Order, Paper, Partner, Payment, Photo


class LineInline(admin.TabularInline):  # type: ignore[type-arg]  # not subscriptable at run time
    model = Line
    extra = 0
    raw_id_fields = ["photo"]


@admin.register(Order)
class OrderAdmin(JobsAboutMixin, admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    list_display = ["pk", "name", "size", "price", "state", "placed_at"]
    list_filter = ["size"]
    search_fields = ["name", "email"]
    inlines = [LineInline]


@admin.register(Photo)
class PhotoAdmin(JobsAboutMixin, admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    list_display = ["pk", "title", "thumbnail", "uploaded_at"]
    search_fields = ["title"]
    readonly_fields = ["thumbnail"]


@admin.register(Paper)
class PaperAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    list_display = ["size", "sheets"]


@admin.register(Partner)
class PartnerAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    list_display = ["name", "url", "is_active"]


@admin.register(Payment)
class PaymentAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    list_display = ["order", "amount_cents", "made_at"]
    raw_id_fields = ["order"]
