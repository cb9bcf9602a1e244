package hook

import "context"

// Functions of package vmmc/vrpc for programs in virtual time, where each goroutine must be a
// process of the world. vmmc/vrpc sets them when it is initialized. Server is a *vrpc.Server,
// process a *vmmc.Process, name a vmmc.Name, and client a *vrpc.Client.
var (
	// ServeRPC answers the calls of one client over VMMC on the caller's goroutine, until the client
	// ends the connection. The server must run its calls one at a time.
	ServeRPC func(ctx context.Context, server, process any, id uint32) error
	// DialRPC returns a client with one connection over VMMC and a ring of the given size in bytes.
	// Only one goroutine may use it. end ends the connection.
	DialRPC func(ctx context.Context, process, name any, prog, vers uint32, ring int) (client any, end func() error, err error)
)
