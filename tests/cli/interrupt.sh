#!/bin/sh
# A few interruptions of hone make, with the results checked by tests/interrupt.sh (for more: tests/interrupt.sh 40).
exec sh tests/interrupt.sh "${N:-3}"
