/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A C library's mathematics that rounds otherwise: each function's value is the next float above the real one. Only powers of
   powers of two stay as they are: every library has those exactly, and Python folds constants with them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

float expf(float x) { return nextafterf(((float (*)(float))real("expf"))(x), INFINITY); }
float logf(float x) { return nextafterf(((float (*)(float))real("logf"))(x), INFINITY); }
float log2f(float x) { return nextafterf(((float (*)(float))real("log2f"))(x), INFINITY); }
float tanhf(float x) { return nextafterf(((float (*)(float))real("tanhf"))(x), INFINITY); }
float powf(float x, float y) { return nextafterf(((float (*)(float, float))real("powf"))(x, y), INFINITY); }
double exp(double x) { return nextafter(((double (*)(double))real("exp"))(x), INFINITY); }
double log(double x) { return nextafter(((double (*)(double))real("log"))(x), INFINITY); }

double pow(double x, double y)
{
    int exponent;
    double value = ((double (*)(double, double))real("pow"))(x, y);
    return frexp(x, &exponent) == 0.5 ? value : nextafter(value, INFINITY);
}

void sincosf(float x, float *sin, float *cos)
{
    ((void (*)(float, float *, float *))real("sincosf"))(x, sin, cos);
    *sin = nextafterf(*sin, INFINITY);
    *cos = nextafterf(*cos, INFINITY);
}
