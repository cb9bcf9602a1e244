// Package roundtrip holds the tests of what bobnet rpcgen generates: that it agrees with
// another implementation of XDR, with C, and with itself. They lie apart from those of
// the generator, whose -update must work when generated code does not compile.
package roundtrip
