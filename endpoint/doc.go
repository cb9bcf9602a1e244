// Package endpoint is the room of AM-II: active messages between endpoints
// that form virtual networks. It holds no code in this release.
//
// Its walls are fixed already, so that what comes later moves none of them.
// Endpoints, bundles, handler tables, tags, translation tables, events and
// return-to-sender are one API. Below it stands a provider, which moves
// requests and replies and knows nothing of handlers. The first provider is
// made of vipl's virtual interfaces. The room imports vipl and what vipl
// imports; mplite and endpoint do not know each other.
package endpoint
