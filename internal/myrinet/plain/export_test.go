package plain

import (
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// PageOf returns the doorbell page of a link in virtual time.
func PageOf(l transport.Link) *myrinet.Page { return l.(*virtual).page }
