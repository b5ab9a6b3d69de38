# For those who like make; the starter does the work and needs nothing but Python.
.PHONY: app test
app:
	python3 lab.py app
test:
	python3 lab.py test
