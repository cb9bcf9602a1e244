package mplite

import (
	"context"
	"reflect"
)

// The functions of this file are the methods of Comm for elements of a numeric
// type. Where sender and receiver differ in byte order, the receiver makes
// right. A message's elements must be as large at the receiver as they were at
// the sender (ErrType); the []byte methods may receive anything, unchanged.

// unitOf returns how many bytes of T change places together between byte
// orders: all of them, but half of a complex number's.
func unitOf[T Number]() uint8 {
	n := sizeOf[T]()
	if k := reflect.TypeFor[T]().Kind(); k == reflect.Complex64 || k == reflect.Complex128 {
		n /= 2
	}
	return uint8(n)
}

// Elements returns the number of whole elements of T in the message that s
// describes (MPI_Get_count).
func Elements[T Number](s Status) int { return s.Count / sizeOf[T]() }

// Send is Comm.Send for elements of T.
func Send[T Number](ctx context.Context, c *Comm, buf []T, dst, tag int) error {
	return c.send(ctx, asBytes(buf), dst, tag, c.user(unitOf[T]()))
}

// Ssend is Comm.Ssend for elements of T.
func Ssend[T Number](ctx context.Context, c *Comm, buf []T, dst, tag int) error {
	return c.send(ctx, asBytes(buf), dst, tag, c.user(unitOf[T]()).sync())
}

// Recv is Comm.Recv for elements of T. Elements tells how many came.
func Recv[T Number](ctx context.Context, c *Comm, buf []T, src, tag int) (Status, error) {
	return c.recv(ctx, asBytes(buf), src, tag, c.user(unitOf[T]()))
}

// Isend is Comm.Isend for elements of T.
func Isend[T Number](c *Comm, buf []T, dst, tag int) (*Request, error) {
	return c.isend(asBytes(buf), dst, tag, c.user(unitOf[T]()))
}

// Issend is Comm.Issend for elements of T.
func Issend[T Number](c *Comm, buf []T, dst, tag int) (*Request, error) {
	return c.isend(asBytes(buf), dst, tag, c.user(unitOf[T]()).sync())
}

// Irecv is Comm.Irecv for elements of T.
func Irecv[T Number](c *Comm, buf []T, src, tag int) (*Request, error) {
	return c.irecv(asBytes(buf), src, tag, c.user(unitOf[T]()))
}

// Sendrecv is Comm.Sendrecv for elements of T.
func Sendrecv[T Number](ctx context.Context, c *Comm, sendbuf []T, dst, sendtag int, recvbuf []T, src, recvtag int) (Status, error) {
	return c.exchange(ctx, asBytes(sendbuf), dst, sendtag, asBytes(recvbuf), src, recvtag, c.user(unitOf[T]()))
}
