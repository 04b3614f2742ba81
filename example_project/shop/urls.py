"""The shop's pages."""

from __future__ import annotations

from django.urls import path

from example_project.shop import views

app_name = "shop"

urlpatterns = [
    path("", views.photos, name="photos"),
    path("order/", views.order_prints, name="order-prints"),
    path("orders/", views.orders, name="orders"),
    path("orders/<int:pk>/", views.order, name="order"),
]
