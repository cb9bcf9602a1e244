package loop_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/loop"
	"github.com/bobnet-go/bobnet/endpoint/internal/providertest"
)

// TestConforms: the provider within a node keeps the contract.
func TestConforms(t *testing.T) {
	providertest.Run(t, func(_ *testing.T, _, server *providertest.Host) providertest.Net {
		return providertest.Net{Dialer: loop.New(server, &server.Budget)}
	})
}
