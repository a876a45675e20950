#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/clients/alone.sh COMMAND...: a command in a network of its own (unshare -n) that has this machine's own address only.
ip link set lo up
exec "$@"
