package metrics

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/bobnet-go/bobnet/internal/admission"
)

// limitedListener closes connections that are too many.
type limitedListener struct {
	net.Listener
	gate *admission.Gate[string]
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := admission.PeerOf(conn)
		if l.gate.Enter(peer) {
			return &limitedConn{Conn: conn, peer: peer, gate: l.gate}, nil
		}
		conn.Close()
	}
}

// limitedConn is a connection that the gate counts until it is closed.
type limitedConn struct {
	net.Conn
	peer string
	gate *admission.Gate[string]
	once sync.Once
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.gate.Leave(c.peer) })
	return err
}

// peerKey is the key of a request's peer in its context.
type peerKey struct{}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*limitedConn); ok {
		return context.WithValue(ctx, peerKey{}, c.peer)
	}
	return ctx
}

// limitRequests returns h with a bound on the requests that are being answered.
func limitRequests(h http.Handler) http.Handler {
	gate := admission.New[string](admission.Limits{Conns: peerRequests, AllConns: allRequests})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, _ := r.Context().Value(peerKey{}).(string)
		if !gate.Enter(peer) {
			http.Error(w, "too many requests at once: try again later", http.StatusServiceUnavailable)
			return
		}
		defer gate.Leave(peer)
		h.ServeHTTP(w, r)
	})
}
