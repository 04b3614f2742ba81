"""The shop's pages: photos, the order form, orders."""

from __future__ import annotations

from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from example_project.shop.forms import OrderForm, PhotoForm
from example_project.shop.models import Order, Photo, Size
from example_project.shop.orders import place

PHOTOS_SHOWN = 24
ORDERS_A_PAGE = 25


@require_http_methods(["GET", "HEAD", "POST"])
def photos(request: HttpRequest) -> HttpResponse:
    """Show the latest photos and take new ones."""
    form = PhotoForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():  # the photo and, by its signal, the job that makes its thumbnail
            photo = form.save()
        messages.success(request, f"{photo.title} is uploaded.")
        return redirect("shop:photos")
    return render(
        request,
        "shop/photos.html",
        {"form": form, "photos": Photo.objects.all()[:PHOTOS_SHOWN]},
        status=400 if form.errors else 200,
    )


@require_http_methods(["GET", "HEAD", "POST"])
def order_prints(request: HttpRequest) -> HttpResponse:
    """Take an order of prints of the latest photos."""
    form = OrderForm(Photo.objects.all()[:PHOTOS_SHOWN], request.POST or None)
    if request.method == "POST" and form.is_valid():
        order = place(
            name=form.cleaned_data["name"],
            email=form.cleaned_data["email"],
            size=Size(form.cleaned_data["size"]),
            copies=form.cleaned_data["copies"],
        )
        messages.success(request, "Thank you! Your receipt comes by mail.")
        return redirect("shop:order", order.pk)
    return render(request, "shop/order_prints.html", {"form": form}, status=400 if form.errors else 200)


@require_safe
def orders(request: HttpRequest) -> HttpResponse:
    """List the orders, newest first."""
    found = Order.objects.annotate(prints=Sum("lines__copies")).order_by("-pk")
    page = Paginator(found, ORDERS_A_PAGE).get_page(request.GET.get("page"))
    return render(request, "shop/orders.html", {"page": page})


@require_safe
def order(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one order and how far it has got."""
    found = get_object_or_404(Order.objects.prefetch_related("lines__photo"), pk=pk)
    return render(request, "shop/order.html", {"order": found})
