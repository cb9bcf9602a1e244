package vi_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/providertest"
	"github.com/bobnet-go/bobnet/endpoint/internal/vi"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestConforms: the provider over virtual interfaces keeps the contract.
func TestConforms(t *testing.T) {
	providertest.Run(t, func(t *testing.T, client, server *providertest.Host) providertest.Net {
		c, v := open(t, client), open(t, server)
		return providertest.Net{Dialer: c, To: v.Addr(), Nodes: []provider.Provider{c, v}}
	})
}

func open(t *testing.T, h *providertest.Host) *vi.Provider {
	nic, err := vipl.Open(&vipl.Config{Driver: "shm", EtherType: 0x88B6})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nic.Close() })
	p, err := vi.Open(vi.Config{NIC: nic}, h, &h.Budget, &h.Corked)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}
