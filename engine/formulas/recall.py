"""The words of needles: a mark, a key and a value, each one token of the lab model. Pure.

"<mark><fox><red>" somewhere in a text says that the fox is red; "<mark><fox>" at its end asks for it, and the answer is
"<red>". They are tokens added to the vocabulary, so they are the same wherever they stand and never part of the prose.
"""

BOS = "<bos>"
MARK = "<mark>"
KEYS = tuple(f"<{animal}>" for animal in ("ant", "bear", "cat", "dog", "eagle", "fox", "goat", "hare", "ibis", "lion", "mole", "newt", "owl", "pig", "seal", "wolf"))
VALUES = tuple(f"<{colour}>" for colour in ("amber", "black", "blue", "brown", "cyan", "gold", "green", "grey", "lime", "navy", "pink", "plum", "red", "ruby", "teal", "white"))
