"""The list of scenarios, and what each of them gets."""

import contextlib

from driver import Driver, DriverError
from proxy import Proxy
from server import Server

SCENARIOS = {}


def scenario(function):
    """Adds a function to the scenarios, under its name."""
    SCENARIOS[function.__name__] = function
    return function


class Scenario:
    """What a scenario uses: a server, a proxy before it, and the driver of one library behind the proxy."""

    def __init__(self, language, name, server):
        self.language, self.server = language, server
        self.topic = name[:100]
        self.stack = contextlib.ExitStack()
        self._proxy = self._driver = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    @property
    def proxy(self):
        if not self._proxy:
            self._proxy = Proxy(self.server)
            self.stack.callback(self._proxy.close)
        return self._proxy

    @property
    def driver(self):
        if not self._driver:
            self._driver = self.another_driver(self.proxy.url, self.server.token)
        return self._driver

    def another_driver(self, url=None, token=None, **options):
        """Starts a driver in addition."""
        driver = Driver(self.language, url or self.proxy.url, token, **options)
        self.stack.callback(driver.close)
        return driver

    def own_server(self, **options):
        """Starts a server for this scenario alone, and uses it from now on."""
        self.server = self.stack.enter_context(Server(**options))
        return self.server

    def fails(self, kind, call, *arguments, **fields):
        """Returns the error that a call must raise."""
        try:
            value = call(*arguments, **fields)
        except DriverError as error:
            if error.kind == kind:
                return error
            raise AssertionError(f"expected an error of kind {kind}; got {error.kind}: {error}") from None
        raise AssertionError(f"expected an error of kind {kind}; got the value {value}")
