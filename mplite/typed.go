package mplite

import "context"

// The functions of this file are the methods of Comm for elements of a type T: see Elements in the
// package comment. They return ErrType if T cannot be an element, or if a message's elements differ
// from the receive's in kind or size.

// Elements returns the number of whole elements of T in the message that s
// describes (MPI_Get_count, MPI_Get_elements).
func Elements[T any](s Status) int { return s.Count / max(sizeOf[T](), 1) }

// Send is Comm.Send for elements of T.
func Send[T any](ctx context.Context, c *Comm, buf []T, dst, tag int) error {
	typ := elementOf[T]()
	if typ.err != nil {
		return typ.err
	}
	return c.send(ctx, asBytes(buf), dst, tag, c.user(typ))
}

// Ssend is Comm.Ssend for elements of T.
func Ssend[T any](ctx context.Context, c *Comm, buf []T, dst, tag int) error {
	typ := elementOf[T]()
	if typ.err != nil {
		return typ.err
	}
	return c.send(ctx, asBytes(buf), dst, tag, c.user(typ).sync())
}

// Recv is Comm.Recv for elements of T. Elements returns the number of elements received.
func Recv[T any](ctx context.Context, c *Comm, buf []T, src, tag int) (Status, error) {
	typ := elementOf[T]()
	if typ.err != nil {
		return Status{}, typ.err
	}
	return c.recv(ctx, asBytes(buf), src, tag, c.user(typ))
}

// Isend is Comm.Isend for elements of T.
func Isend[T any](c *Comm, buf []T, dst, tag int) (Request, error) {
	typ := elementOf[T]()
	if typ.err != nil {
		return Request{}, typ.err
	}
	return handle(c.isend(asBytes(buf), dst, tag, c.user(typ)))
}

// Issend is Comm.Issend for elements of T.
func Issend[T any](c *Comm, buf []T, dst, tag int) (Request, error) {
	typ := elementOf[T]()
	if typ.err != nil {
		return Request{}, typ.err
	}
	return handle(c.isend(asBytes(buf), dst, tag, c.user(typ).sync()))
}

// Irecv is Comm.Irecv for elements of T.
func Irecv[T any](c *Comm, buf []T, src, tag int) (Request, error) {
	typ := elementOf[T]()
	if typ.err != nil {
		return Request{}, typ.err
	}
	return handle(c.irecv(asBytes(buf), src, tag, c.user(typ)))
}

// Sendrecv is Comm.Sendrecv for elements of T.
func Sendrecv[T any](ctx context.Context, c *Comm, sendbuf []T, dst, sendtag int, recvbuf []T, src, recvtag int) (Status, error) {
	typ := elementOf[T]()
	if typ.err != nil {
		return Status{}, typ.err
	}
	return c.exchange(ctx, asBytes(sendbuf), dst, sendtag, asBytes(recvbuf), src, recvtag, c.user(typ))
}
