"""The screens: what the user sees. Only this package, `widgets` and `app` may import Textual."""
