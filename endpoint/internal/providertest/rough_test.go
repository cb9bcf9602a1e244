package providertest_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/providertest"
)

// TestRoughConforms: the provider of tests keeps the contract, however rough it is.
func TestRoughConforms(t *testing.T) {
	for name, rough := range map[string]providertest.Rough{
		"any order": {}, "refused for a while": {Nack: 40}, "returned": {Nack: 10, Return: 10},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T, client, server *providertest.Host) providertest.Net {
				seg := providertest.NewSegment(3, rough)
				v := seg.Open(server, &server.Budget)
				c := seg.Open(client, &client.Budget)
				return providertest.Net{Dialer: c, To: v.Addr(), Nodes: []provider.Provider{c, v}}
			})
		})
	}
}
