"""The command palette's entries: the action table again."""

from __future__ import annotations

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from cuzk_top import actions


class ActionCommands(Provider):
    """Offers the actions that work on this screen now."""

    def _available(self) -> list[actions.Action]:
        mode: actions.Mode = getattr(getattr(self.screen, "controls", None), "mode", "live")
        return [action for action in actions.for_mode(mode) if action.id not in ("help", "palette")]

    def _run(self, action: actions.Action) -> None:
        getattr(self.screen, f"action_{action.id}")()

    async def discover(self) -> Hits:
        for action in self._available():
            yield DiscoveryHit(_title(action), partial(self._run, action))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in self._available():
            score = matcher.match(_title(action))
            if score > 0:
                yield Hit(score, matcher.highlight(_title(action)), partial(self._run, action))


def _title(action: actions.Action) -> str:
    return f"{action.help} ({actions.key_name(action.keys[0])})"
