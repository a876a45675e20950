#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/clients/alone.sh COMMAND...: runs a command in a separate network namespace (unshare -n), which has only the
# loopback address.
ip link set lo up
exec "$@"
