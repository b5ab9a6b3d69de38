// Tells the browser (and a screen reader) which language the page is in after it was switched without a reload.
document.documentElement.lang = document.currentScript.dataset.lang;
