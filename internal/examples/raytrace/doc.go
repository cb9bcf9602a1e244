// Package raytrace draws the Utah teapot on a chequered floor by following rays of light
// backwards: alone (Tracer.Serial) or divided among ranks over Split-C (Run), as in
// "Split-C for the New Millennium", whose ray tracer was pico-Ray.
//
// The teapot is Martin Newell's, 32 bicubic Bezier patches, divided into triangles that
// keep the normals of the curved surface; a hierarchy of boxes finds the one that a ray
// meets first. Light comes from a rectangular lamp and from the sky: shadows have soft
// edges, and corners are darker. The glaze mirrors more the flatter one looks at it.
// Each pixel is the mean of a grid of samples, each with a point of the lamp and a
// direction to the sky of its own.
//
// # In parallel
//
// All ranks build the scene. A counter at rank 0 gives out tiles of the picture: who has
// nothing to do adds one to it, atomically, draws that tile, and stores its rows into the
// picture at rank 0. Ranks that are slow, or whose tiles are, take fewer. A rank that
// draws polls after each pixel, so that rank 0 soon answers those who ask for work.
//
// The colour of a pixel depends on the pixel alone, its random numbers too, so the
// picture is the same for any number of ranks.
package raytrace
