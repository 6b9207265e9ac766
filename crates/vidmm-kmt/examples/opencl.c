/*
 * An OpenCL client: kernels over buffers, in turn. Arguments: the number of buffers and the bytes of each in MiB.
 *
 *     cc opencl.c -lOpenCL -o opencl
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX 64

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 16, refused = 0;
	size_t size = (size_t)(argc > 2 ? atoi(argv[2]) : 16) << 20, items = 1024;
	const char *source = "__kernel void add(__global float *a, __global float *b) { b[get_global_id(0)] += a[get_global_id(0)]; }";
	cl_platform_id platform;
	cl_device_id device;
	cl_mem buffers[MAX];
	cl_int error = 0;
	if (count < 1 || count > MAX)
		return 2;
	if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, NULL)) {
		fputs("there is no OpenCL GPU\n", stderr);
		return 2;
	}
	cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
	cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
	if (clBuildProgram(program, 1, &device, "", NULL, NULL)) {
		fputs("the kernel does not compile\n", stderr);
		return 2;
	}
	cl_kernel kernel = clCreateKernel(program, "add", &error);
	for (int i = 0; i < count; i++)
		buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &error);
	for (int i = 0; i < 3 * count; i++) {
		clSetKernelArg(kernel, 0, sizeof(cl_mem), &buffers[i % count]);
		clSetKernelArg(kernel, 1, sizeof(cl_mem), &buffers[(i * 7 + 3) % count]);
		cl_int launched = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
		refused += launched != CL_SUCCESS || clFinish(queue) != CL_SUCCESS;
	}
	printf("%d launches, %d refused\n", 3 * count, refused);
	for (int i = 0; i < count; i++)
		clReleaseMemObject(buffers[i]);
	clReleaseKernel(kernel);
	clReleaseProgram(program);
	clReleaseCommandQueue(queue);
	clReleaseContext(context);
	return 0;
}
