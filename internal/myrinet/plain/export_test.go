package plain

import (
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/transport"
)

// PageOf returns the doorbell page of a link in virtual time.
func PageOf(l transport.Link) *hardware.Page { return l.(*virtual).page }
