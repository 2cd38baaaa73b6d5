"""The last line: the keys that work now, from the action table, or a prompt."""

from __future__ import annotations

from textual import events
from textual.message import Message

from cuzk_top import actions
from cuzk_top.theme import Theme
from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.paint import Line

ALWAYS = 2
"""The last entries of the footer, help and quit, are never dropped."""
NARROW = 80
"""Below it, play and zoom come before what orders and explains the findings."""


class KeysBar(Canvas):
    """Keys bold, what they do beside them; on narrow screens the less important go."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("keys")
        self._theme = theme
        self._last: object = None

    def draw(self, mode: actions.Mode, leads: bool, width: int) -> None:
        """Show the keys of this mode; `leads`: those that act on the stalls pane first."""
        key = (mode, leads, width)
        if key == self._last:
            return
        self._last = key
        entries = actions.footer(mode, leads)
        gap = 2
        start = 1 if width < NARROW else 2
        if leads and width < NARROW:
            entries = [*entries[:2], *entries[4:6], *entries[2:4], *entries[6:]]
        while (
            len(entries) > ALWAYS and start + sum(len(k) + 1 + len(w) + gap for k, w in entries) - gap > width
        ):
            del entries[-ALWAYS - 1]
        line = Line(self._theme, width, "bar").to(start)
        for number, (keys, label) in enumerate(entries):
            line.put(" " * gap if number else "").put(keys, "ink", True).put(f" {label}", "dim")
        self.show([line.strip()])


class Prompt(Canvas, can_focus=True):
    """Asks for one line of text where the keys stand. Enter answers, Esc leaves."""

    class Answered(Message):
        """The user pressed Enter."""

        def __init__(self, purpose: str, text: str) -> None:
            super().__init__()
            self.purpose = purpose
            self.text = text

    class Left(Message):
        """The user pressed Esc."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("prompt")
        self._theme = theme
        self._purpose = ""
        self._question = ""
        self._text = ""
        self.display = False

    def ask(self, purpose: str, question: str, text: str = "") -> None:
        """Take over the keyboard until it is answered or left."""
        self._purpose, self._question, self._text = purpose, question, text
        self.display = True
        self.focus()
        self._draw()

    def on_resize(self) -> None:
        if self.display:
            self._draw()

    def _draw(self) -> None:
        line = Line(self._theme, max(1, self.size.width), "bar").put(" ").put(self._question, "ink", True)
        line.put(" ").put(self._text, "ink").put("_", "ink", True).put("   Enter  Esc", "dim")
        self.show([line.strip()])

    async def _on_key(self, event: events.Key) -> None:
        if event.key in ("ctrl+c", "ctrl+z"):
            return
        event.stop()
        event.prevent_default()
        if event.key == "enter":
            self._close()
            self.post_message(self.Answered(self._purpose, self._text))
            return
        if event.key == "escape":
            self._close()
            self.post_message(self.Left())
            return
        if event.key == "backspace":
            self._text = self._text[:-1]
        elif event.key == "ctrl+u":
            self._text = ""
        elif event.character is not None and event.is_printable:
            self._text += event.character
        self._draw()

    def on_paste(self, event: events.Paste) -> None:
        """The first line of what was pasted; a path with a line's end behind it is still a path."""
        event.stop()
        self._text += "".join(event.text.strip().splitlines()[:1])
        self._draw()

    def _close(self) -> None:
        self.display = False
        self.blur()
