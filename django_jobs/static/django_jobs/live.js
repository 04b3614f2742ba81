/*
 * Keeps one part of a page fresh, as often as its reader wants: it is asked for anew and put in place of the
 * old one. Rests while the tab is hidden; is off to begin with for who prefers less motion. Without this
 * script the page is what it was when it was loaded.
 */
"use strict";

const ARRANGED = [["details", ["open"]], [".dj-scroll, .dj-log, .results, pre", ["scrollLeft", "scrollTop"]]];

document.addEventListener("DOMContentLoaded", () => {
    const control = document.querySelector("form[data-dj-live]");
    if (control === null) {
        return;
    }
    const part = document.getElementById(control.dataset.djLive);
    const rate = control.querySelector("select");
    const stale = control.querySelector(".dj-stale");
    const memory = "django_jobs.refresh";
    let timer = 0;

    function remembered() {
        try {
            return localStorage.getItem(memory);
        } catch {
            return null; // the browser keeps nothing for this site
        }
    }

    function remember(value) {
        try {
            localStorage.setItem(memory, value);
        } catch {
            // it holds for this page
        }
    }

    /* Where the keyboard is, as a way to find that place after the part was replaced. */
    function place() {
        const focused = document.activeElement;
        if (!part.contains(focused)) {
            return () => null;
        }
        if (focused.id) {
            return () => part.querySelector(`#${CSS.escape(focused.id)}`);
        }
        if (focused.href) {
            return () => [...part.querySelectorAll("a")].find((link) => link.href === focused.href);
        }
        const kind = focused.localName;
        const number = [...part.querySelectorAll(kind)].indexOf(focused);
        return () => part.querySelectorAll(kind)[number];
    }

    /* What its reader has done to the part: folds opened, tables and texts scrolled. */
    function arranged() {
        return ARRANGED.map(([kind, names]) =>
            [...part.querySelectorAll(kind)].map((one) => names.map((name) => one[name])));
    }

    function arrange(before) {
        ARRANGED.forEach(([kind, names], place) => {
            const fresh = [...part.querySelectorAll(kind)];
            if (fresh.length === before[place].length) {
                fresh.forEach((one, number) => {
                    names.forEach((name, which) => { one[name] = before[place][number][which]; });
                });
            }
        });
    }

    async function refresh() {
        let answer;
        try {
            answer = await fetch(location.href, {headers: {"X-Django-Jobs-Part": "live"}, credentials: "same-origin"});
        } catch {
            stale.hidden = false;
            return;
        }
        if (answer.redirected) {
            location.reload(); // signed out meanwhile
            return;
        }
        stale.hidden = answer.ok;
        if (!answer.ok) {
            return;
        }
        const found = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = found.getElementById(part.id) || found.body;
        if (String(getSelection()) && part.contains(getSelection().anchorNode)) {
            return; // someone is copying
        }
        const focused = place();
        const before = arranged();
        part.replaceChildren(...fresh.childNodes);
        arrange(before);
        focused()?.focus({preventScroll: true});
    }

    function plan() {
        clearTimeout(timer);
        const seconds = Number(rate.value);
        if (seconds > 0 && !document.hidden) {
            timer = setTimeout(async () => {
                await refresh();
                plan();
            }, seconds * 1000);
        }
    }

    const before = remembered();
    if (before !== null && [...rate.options].some((option) => option.value === before)) {
        rate.value = before;
    } else if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
        rate.value = "0";
    }
    rate.addEventListener("change", () => {
        remember(rate.value);
        plan();
    });
    document.addEventListener("visibilitychange", plan);
    control.addEventListener("submit", (event) => event.preventDefault());
    control.hidden = false;
    plan();
});
