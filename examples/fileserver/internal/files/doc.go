// Package files is the remote file service of the example fileserver: what bobnet rpcgen
// makes of files.x.
package files

//go:generate go run ../../../../cmd/bobnet rpcgen files.x
