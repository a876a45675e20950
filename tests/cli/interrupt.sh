#!/bin/sh
# hone make, interrupted a few times (by hand: tests/interrupt.sh 40): tests/interrupt.sh says what must hold.
exec sh tests/interrupt.sh "${N:-3}"
